"""What is plainly wrong in a server's configuration, found by reading it."""
