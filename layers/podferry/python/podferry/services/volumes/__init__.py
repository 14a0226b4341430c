"""What a user does to volumes while no pod writes them."""
