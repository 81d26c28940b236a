# offset-shim serve, as a user of its own, the log in the volume /var/lib/offset-shim:
#   docker build -t offset-shim .
#   docker run -p 19092-19094:19092-19094 -v offsets:/var/lib/offset-shim offset-shim serve \
#     --bootstrap-servers HOST:9092 --listen 0.0.0.0:19092 --advertised-host localhost --data-dir /var/lib/offset-shim
# Bootstrap is at port P of --listen, the broker with node id i at P + 1 + i: publish as many ports as there are ids.

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
ENV PATH=/opt/offset-shim/bin:$PATH PYTHONUNBUFFERED=1
USER offset-shim
WORKDIR /var/lib/offset-shim
VOLUME /var/lib/offset-shim
ENTRYPOINT ["offset-shim"]
