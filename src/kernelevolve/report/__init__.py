"""Report: what a run found, as a file to keep and as a view of the terminal."""
