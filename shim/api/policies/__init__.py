"""What each API that the shim serves needs of the client, and where its refusals stand in the response.

As in Kafka 4.3 (KIP-11), and in its order: a group first, then its topics, and only then whether these exist and what
the coordinator says. So nobody learns of what he may not see. tests/authorization compares with a broker.
"""
