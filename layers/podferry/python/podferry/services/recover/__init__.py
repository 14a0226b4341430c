"""What nobody asked for: machines that are lost, that must go, that nobody knows."""
