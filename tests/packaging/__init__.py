"""Images, compose profiles, the systemd unit and the Kubernetes example: each against the others."""
