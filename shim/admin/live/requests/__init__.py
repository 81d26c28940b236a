"""What a request asks for, read from its query or its body, which anybody may have sent: pure."""
