"""What NVIDIA's languages are compiled, examined and launched with, without torch's headers."""
