"""DescribeConfigs v0: says of a value that it is the default, not where else it comes from (v1: KIP-226)."""

from __future__ import annotations

from compat.translation import Context, Exchange, Translation
from protocol.messages.describe_configs import API, DescribeConfigsRequest

# Of the sources that a value may have. In v0 the default is all that nobody has set for the resource itself.
_SET_FOR_THE_TOPIC = 1
_SET_FOR_THE_BROKER = (2, 4)  # dynamic, static
_TOPIC = 2


def exchange(_: int, request: DescribeConfigsRequest, __: Context) -> Exchange:
    (response,) = yield (request,)
    return response._replace(
        results=tuple(
            result._replace(
                configs=tuple(
                    each._replace(is_default=_is_default(result.resource_type, each.config_source))
                    for each in result.configs
                )
            )
            for result in response.results
        )
    )


def _is_default(resource_type: int, source: int) -> bool:
    return source != _SET_FOR_THE_TOPIC if resource_type == _TOPIC else source not in _SET_FOR_THE_BROKER


TRANSLATION = Translation(API, 0, 0, 1, exchange)
