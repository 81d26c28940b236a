"""The old world, pure: API versions that brokers dropped, and the message formats that came with them."""
