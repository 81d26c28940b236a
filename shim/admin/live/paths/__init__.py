"""What is behind each path, a module for each family of them; none knows of another."""
