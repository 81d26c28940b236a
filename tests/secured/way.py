"""How a client of some library comes to a port where SASL is wanted: its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.helpers import create_ssl_context

from tests.secured.broker import SecuredBroker
from tests.secured.users import PASSWORDS

_LOGIN = "org.apache.kafka.common.security"


class Way(NamedTuple):
    """`truststore`: of TLS, None without it; `keystore`: what the client shows of itself."""

    bootstrap: str
    truststore: Path | None = None
    keystore: Path | None = None

    @property
    def security_protocol(self) -> str:
        return "SASL_PLAINTEXT" if self.truststore is None else "SASL_SSL"

    def librdkafka(self, mechanism: str, user: str, password: str | None = None) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.security_protocol,
            "sasl.mechanism": mechanism,
            "log_level": 0,
        }
        if self.truststore is not None:
            settings["ssl.ca.location"] = str(self.truststore)
        if self.keystore is not None:
            settings |= {"ssl.key.location": str(self.keystore), "ssl.certificate.location": str(self.keystore)}
        if mechanism == "OAUTHBEARER":
            unsecured = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": f"principal={user}"}
            return {**settings, **unsecured}
        return {**settings, "sasl.username": user, "sasl.password": _password(user, password)}

    def kafka_python(self, mechanism: str, user: str) -> dict[str, Any]:
        tls = {
            "ssl_cafile": None if self.truststore is None else str(self.truststore),
            "ssl_certfile": None if self.keystore is None else str(self.keystore),
            "ssl_keyfile": None if self.keystore is None else str(self.keystore),
        }
        return {**self._python(mechanism, user), **(tls if self.truststore is not None else {})}

    def aiokafka(self, mechanism: str, user: str) -> dict[str, Any]:
        settings = self._python(mechanism, user)
        if self.truststore is not None:
            files = {} if self.keystore is None else {"certfile": str(self.keystore), "keyfile": str(self.keystore)}
            settings["ssl_context"] = create_ssl_context(cafile=str(self.truststore), **files)
        return settings

    def java(self, mechanism: str, user: str, password: str | None = None) -> dict[str, str]:
        named = f'username="{user}" password="{_password(user, password)}";'
        module = {
            "PLAIN": f"plain.PlainLoginModule required {named}",
            "OAUTHBEARER": f'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{user}";',
        }.get(mechanism, f"scram.ScramLoginModule required {named}")
        settings = {
            "security.protocol": self.security_protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{_LOGIN}.{module}",
        }
        if self.truststore is not None:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.truststore)}
        if self.keystore is not None:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}
        return settings

    def java_file(self, file: Path, mechanism: str, user: str, password: str | None = None) -> str:
        """Its path, for a tool's option."""
        lines = (f"{name}={value}\n" for name, value in self.java(mechanism, user, password).items())
        file.write_text("".join(lines))
        return str(file)

    def _python(self, mechanism: str, user: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.security_protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": PASSWORDS[user],
        }


def way_to(bootstrap: str, secured: SecuredBroker) -> Way:
    """To this broker, or to a shim that speaks what it does."""
    return Way(bootstrap, None if secured.authority is None else secured.authority.truststore)


def _password(user: str, password: str | None) -> str:
    return PASSWORDS[user] if password is None else password
