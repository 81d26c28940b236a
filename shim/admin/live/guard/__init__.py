"""Who is turned away, and with which words: who does not know the token, and pages of other sites."""
