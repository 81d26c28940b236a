"""How fast the codec of `protocol` is, beside the codecs of kafka-python, aiokafka and kio, in one run.

`python -m benchmarks.codec` from the root of the repository; `lines.py` says what is compared, `rivals.py` with whom.
"""
