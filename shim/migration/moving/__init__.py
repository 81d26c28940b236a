"""A group is moved: into other hands, or from step to step. Nobody decides about it meanwhile."""
