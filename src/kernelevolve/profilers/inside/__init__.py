"""What runs in a worker, beside the candidate: probes that profilers send, and parsers of what tools left there."""
