"""The port: who is let in, which paths there are, and what holds for each request, whichever path it is for."""
