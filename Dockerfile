# offset-shim serve, as a user of its own, on a read-only root file system, the log in the volume /var/lib/offset-shim:
#   docker build -t offset-shim .
#   docker run --read-only --tmpfs /tmp -p 19092-19094:19092-19094 -v offsets:/var/lib/offset-shim offset-shim serve \
#     --bootstrap-servers HOST:9092 --listen 0.0.0.0:19092 --advertised-host localhost
# Bootstrap is at port P of --listen, the broker with node id i at P + 1 + i: publish as many ports as there are ids.
# The admin interface is at 127.0.0.1:9644 of the container, for: docker exec CONTAINER offset-shim groups list

FROM python:3.12-slim AS build
WORKDIR /build
# Every file that the lock file names, its hash verified; the install below takes from these files and nothing else,
# so that the image has the locked versions of what `serve` needs and none of the tools for development.
COPY requirements.lock .
RUN pip download --disable-pip-version-check --only-binary :all: --require-hashes --requirement requirements.lock --dest /wheels
COPY pyproject.toml README.md LICENSE ./
COPY compat compat
COPY pipeline pipeline
COPY protocol protocol
COPY shim shim
RUN python -m venv /opt/offset-shim \
 && /opt/offset-shim/bin/pip install --disable-pip-version-check --no-cache-dir --no-index --find-links /wheels .

FROM python:3.12-slim
COPY --from=build /opt/offset-shim /opt/offset-shim
RUN useradd --system --uid 10001 --home-dir /var/lib/offset-shim --create-home --shell /usr/sbin/nologin offset-shim
# Settings: each has such a variable (docs/settings.md); options after `serve` go before.
ENV PATH=/opt/offset-shim/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    OFFSET_SHIM_DATA_DIR=/var/lib/offset-shim OFFSET_SHIM_ADMIN_LISTEN=127.0.0.1:9644
USER 10001:10001
WORKDIR /var/lib/offset-shim
VOLUME /var/lib/offset-shim
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9644/livez', timeout=4)"]
ENTRYPOINT ["offset-shim"]
