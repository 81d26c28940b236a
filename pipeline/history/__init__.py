"""``offset-pipeline history``: the log and its history as tables of Spark, and what can be asked of them."""
