"""The Spark jobs beside what they are measured against."""
