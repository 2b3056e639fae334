"""The loops on NVIDIA devices: their source in CUDA C, and what compiles, keeps and starts it."""
