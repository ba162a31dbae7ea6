"""The only place that knows the order of the stages, and that owns memory."""
