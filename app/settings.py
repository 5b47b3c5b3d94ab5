"""Every setting of the service, read from the environment (`EBBING_*`) or a `.env` file.

This is the only module that reads the environment. Units are part of the names.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

KIB = 1024
MIB = 1024 * KIB
OPENAI_URL = "https://api.openai.com/v1"
EMBEDDING_MODELS = {
    "openai": "text-embedding-3-small",
    "fastembed": "BAAI/bge-small-en-v1.5",
    "sentence-transformers": "sentence-transformers/all-MiniLM-L6-v2",
}
"""Default models by embedder; `local` has no choice."""
IN_PROCESS = frozenset({"fastembed", "sentence-transformers"})
"""Embedders whose model runs in the process."""
CROSS_ENCODER = "Xenova/ms-marco-MiniLM-L-6-v2"


class Price(BaseModel):
    """What a model costs: money for a million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(0, ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)


class Settings(BaseSettings):
    """Settings with defaults that work on one machine."""

    model_config = SettingsConfigDict(env_prefix="EBBING_", env_file=".env", extra="ignore", frozen=True)

    # Where things are
    home: Path = Field(Path(".ebbing"), description="Folder of `ebbing run`: databases, logs, the first API key.")
    database_url: SecretStr | None = Field(
        None, description="PostgreSQL, as `postgresql://user:password@host:port/db`."
    )
    owner_database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL for `ebbing migrate`, where its rights are kept apart; else `DATABASE_URL`.",
    )
    redis_url: SecretStr | None = Field(None, description="Redis, as `redis://:password@host:port/0`.")
    api_url: str | None = Field(
        None, description="Where the CLI finds the API; else what `ebbing run` noted in its home."
    )
    api_key: SecretStr | None = Field(None, description="The CLI's API key; else `HOME/api-key`.")
    redis_appendfsync: Literal["everysec", "always"] = Field(
        "everysec", description="How the embedded Redis flushes its log; `always` survives a loss of power."
    )
    redis_maxmemory_bytes: int = Field(
        512 * MIB, ge=16 * MIB, description="Memory of the embedded Redis; full means 503, never eviction."
    )

    # HTTP
    host: str = Field("127.0.0.1", description="Address the API listens on.")
    port: int = Field(8000, ge=0, le=65535, description="Port the API listens on; 0 takes a free one.")
    docs_enabled: bool = Field(True, description="Serve `/docs` and `/openapi.json`.")
    metrics_enabled: bool = Field(True, description="Serve `/metrics`.")
    metrics_token: SecretStr | None = Field(
        None,
        min_length=16,
        description="What `/metrics` wants as `Authorization: Bearer …`, unless it gets an API key of scope `admin`; "
        "without it, whoever reaches the API reads the numbers of all tenants together.",
    )
    request_body_max_bytes: int = Field(8 * MIB, ge=KIB, description="Largest request body.")
    request_headers_timeout_seconds: float = Field(
        20,
        ge=0.1,
        description="Longest time headers may take to arrive, and how long an idle connection lasts: longer than "
        "clients keep one, so that it is they who close it.",
    )
    request_body_timeout_seconds: float = Field(15, gt=0, description="Longest time a body may take to arrive.")
    request_memories_max: int = Field(1000, ge=1, le=4096, description="Most memories in one request.")
    wait_max_seconds: float = Field(30, ge=0, description="Longest `Prefer: wait`.")
    key_cache_seconds: float = Field(3, ge=0, le=4, description="How long the API trusts a key it has looked up.")
    idempotency_hours: float = Field(24, gt=0, description="How long an `Idempotency-Key` is remembered.")

    # The door: how much may wait to be stored
    tenant_backlog_entries: int = Field(20_000, ge=1, description="Requests of one tenant waiting; more is a 429.")
    tenant_backlog_bytes: int = Field(128 * MIB, ge=KIB, description="Bytes of one tenant waiting; more is a 429.")
    backlog_entries: int = Field(200_000, ge=1, description="Requests of all tenants waiting; more is a 503.")
    backlog_bytes: int = Field(320 * MIB, ge=KIB, description="Bytes of all tenants waiting; more is a 503.")

    # Drain
    drain_rows: int = Field(5000, ge=1, description="Memories in one turn of a tenant, one transaction.")
    drain_entries: int = Field(1000, ge=1, description="Requests in one turn of a tenant.")
    drain_bytes: int = Field(16 * MIB, ge=KIB, description="Bytes in one turn of a tenant.")
    claim_idle_seconds: float = Field(
        10, gt=0, description="After this a claimed entry counts as left by a dead worker."
    )
    deliveries_max: int = Field(3, ge=1, description="Tries before a dead letter.")
    slice_seconds: float = Field(5, gt=0, description="Longest slice of work of one task.")

    # Enrichment
    embedder: Literal["local", "openai", "fastembed", "sentence-transformers"] = Field(
        "local",
        description="`local`: a static model bundled by its package, offline; `openai`: `EMBEDDING_MODEL` of the "
        "provider; `fastembed`, `sentence-transformers`: `EMBEDDING_MODEL` in the process, by the extra of that name. "
        "Changed, it is used for new tenants; the others are moved by `ebbing reembed`.",
    )
    lease_seconds: float = Field(30, gt=0, description="How long an enrichment claim holds before another may take it.")
    index_rows: int = Field(2000, ge=1, description="Memories in one index transaction.")
    embed_rows: int = Field(1000, ge=1, description="Memories in one embedding batch.")
    score_rows: int = Field(1000, ge=1, description="Memories in one scoring batch.")

    # Search
    search_exact_rows: int = Field(
        2_000,
        ge=0,
        description="Memories of a tenant up to which a search compares them all; with more, indexes of its own find "
        "what is worth comparing.",
    )

    # Maintenance
    ingest_behind_seconds: float = Field(
        10, ge=0, description="Age of the oldest that waits to be stored or indexed from which on jobs give way to it."
    )
    jobs_wait_hours: float = Field(
        2,
        ge=0,
        lt=24,
        description="How long a job gives way at most, counted from when it was made and then each day anew; less than "
        "`NIGHT_HOURS`.",
    )
    night_hours: float = Field(
        6,
        gt=0,
        le=23,
        description="How long a tenant's night may last; what is left then is what the next one begins with.",
    )

    # Privacy
    backup_days: int = Field(
        30,
        ge=0,
        le=3650,
        description="How long you keep backups of the data, as reports of erasures say it. The service makes none.",
    )

    backup_mark: Path | None = Field(
        None,
        description="File that your backup touches when it is done: its age is `ebbing_backup_age_seconds`.",
    )

    # A provider of models: OpenAI, or any server that speaks its protocol. Only operators choose it.
    openai_api_key: SecretStr | None = Field(
        None, description="The provider's key. Without it and without `OPENAI_BASE_URL`, no model is asked."
    )
    openai_base_url: str | None = Field(
        None, description="Where the provider is, such as `http://127.0.0.1:11434/v1`; else OpenAI's own address."
    )
    llm_hosts: Annotated[frozenset[str], NoDecode] = Field(
        frozenset(), description="Hosts that memories may be sent to; empty means the host of `OPENAI_BASE_URL` alone."
    )
    llm_private_addresses: bool = Field(
        False,
        description="Whether a host's name may lead to a private address, as in a container network; `localhost` and "
        "numeric addresses always may.",
    )
    salience_model: str = Field(
        "gpt-5.4-mini", min_length=1, description="Model that rates memories where a provider is given."
    )
    embedding_model: str | None = Field(
        None,
        min_length=1,
        description="Model of an embedder other than `local`, or a folder with the files of one that runs in the "
        "process; each has its own space. Else `text-embedding-3-small` of "
        "`openai`, `BAAI/bge-small-en-v1.5` of `fastembed`, `sentence-transformers/all-MiniLM-L6-v2` of "
        "`sentence-transformers`.",
    )
    embedding_query_prefix: str = Field(
        "auto",
        description="Text in front of each query of `fastembed` and `sentence-transformers`: `auto` takes what the "
        "model's files name, or else its family; empty is none. Quote it in `.env`, so that a space at its end stays.",
    )
    embedding_document_prefix: str = Field(
        "auto",
        description="Text in front of each memory, likewise. Changed, it makes another space: `ebbing reembed` moves "
        "tenants there.",
    )
    embedding_threads: int = Field(
        1, ge=1, le=64, description="Threads of a model in the process, and of the `cross-encoder`, for each process."
    )
    embedding_dimensions: int = Field(
        768, ge=0, le=16_000, description="Size asked of an `openai` model; 0 asks for none and takes what it gives."
    )
    llm_timeout_seconds: float = Field(
        30, gt=0, le=120, description="Longest time of one call, to the answer's last byte; a worker's task has 300."
    )
    llm_query_timeout_seconds: float = Field(3, gt=0, description="The same for a query's vector, tried once.")
    query_cache_entries: int = Field(
        2000,
        ge=0,
        description="Vectors of queries that an API process keeps, unless the embedder is `local`; 0 is none.",
    )
    query_cache_seconds: float = Field(600, gt=0, description="How long it keeps one.")
    llm_tries: int = Field(3, ge=1, description="Tries of a call for vectors that fails in a passing way.")
    llm_wait_max_seconds: float = Field(
        10, ge=0, description="Longest wait between tries, in all; what asks for longer is put off."
    )
    llm_concurrency: int = Field(4, ge=1, description="Calls at once of one process.")
    llm_breaker_failures: int = Field(5, ge=1, description="Failures in a row after which the provider is left alone.")
    llm_breaker_seconds: float = Field(30, gt=0, description="How long it is left alone, doubling up to 5 minutes.")
    score_batch_tokens: int = Field(4000, ge=100, description="Tokens of memories in one call for scores.")
    score_batch_memories: int = Field(20, ge=1, le=100, description="Memories in one call for scores.")
    embed_batch_tokens: int = Field(64_000, ge=100, description="Tokens of memories in one call for vectors.")
    embed_batch_memories: int = Field(256, ge=1, le=2048, description="Memories in one call for vectors.")
    summary_model: str | None = Field(
        None, min_length=1, description="Model that sums up memories in consolidation; else `SALIENCE_MODEL`."
    )
    summary_tokens: int = Field(
        16_000,
        ge=100,
        description="Tokens of memories that it is shown for one summary; of more, a summary is made of their own "
        "sentences.",
    )

    # A second look at the best results of a search, where the tenant's policy or the search asks for it
    reranker: str = Field(
        "none",
        min_length=1,
        description="Who takes it: `none`; `llm`: `RERANKER_MODEL` of the provider; `cross-encoder`: a model in the "
        "process, by the extra `fastembed`; else the name of an entry point of the group `ebbing.rerankers`.",
    )
    reranker_model: str | None = Field(
        None,
        min_length=1,
        description="Its model; else `SALIENCE_MODEL` for `llm`, `Xenova/ms-marco-MiniLM-L-6-v2` for `cross-encoder`.",
    )
    rerank_timeout_seconds: float = Field(
        2, gt=0, le=30, description="Longest time it may take; later the results stay as they were."
    )

    # What models may cost. At a hard limit the rules take over until the next day in UTC; nothing is lost.
    prices: dict[str, Price] = Field(
        {},
        description="Money for a million tokens by model, as JSON: "
        '`{"gpt-5.4-mini": {"input": 0.5, "cached": 0.05, "output": 2}}`; one that isn\'t named costs an unknown sum.',
    )
    budget_tokens: int | None = Field(None, ge=0, description="Hard limit of a tenant's tokens a day; none by default.")
    budget_cost: float | None = Field(
        None, ge=0, description="Hard limit of a tenant's money a day, in the unit of `PRICES`; none by default."
    )
    budget_total_tokens: int | None = Field(None, ge=0, description="The same for all tenants together.")
    budget_total_cost: float | None = Field(None, ge=0, description="The same for all tenants together.")
    budget_soft_share: float = Field(
        0.8, gt=0, le=1, description="Share of a hard limit from which on the log, `/metrics` and `/v1/usage` warn."
    )

    # Cold storage. Only operators choose it; the credentials of a cloud are those that its own tools read.
    cold_url: str | None = Field(
        None,
        description="Where memories in cold storage are kept: `file:///folder`, `s3://bucket/prefix`, `gs://bucket`, "
        "`az://container`; else the folder `cold` of `HOME`. Credentials come from the environment, by the names that "
        "the cloud's own tools have: `AWS_ACCESS_KEY_ID` and the like.",
    )
    cold_endpoint: str | None = Field(
        None, description="Address of a store other than the cloud's own, such as `https://minio.example:9000`."
    )
    cold_timeout_seconds: float = Field(30, gt=0, le=120, description="Longest time of one call to it, tries included.")
    master_key: SecretStr | None = Field(
        None,
        min_length=32,
        description="What the keys of cold storage are wrapped by, a random text; `ebbing run` makes "
        "`HOME/master-key`. Keep a copy apart: without it, what is cold is lost.",
    )
    export_days: float = Field(7, gt=0, le=30, description="How long an export of somebody's data can be fetched.")

    # Models of forgetting of one's own. Only operators choose them: they are code.
    dynamics_files: Annotated[dict[str, Path], NoDecode] = Field(
        {},
        description="Decay functions to be offered as profiles, as `name=path.py` with commas: files with a "
        "`compute_decay(activation, impact, stability, mtype, params)`; for the API and all workers alike.",
    )

    # Limits on connections and time
    database_pool_size: int = Field(8, ge=1, description="Connections of the API; each worker process has 2.")
    statement_timeout_seconds: float = Field(30, gt=0, description="Longest statement of the service.")
    shutdown_seconds: float = Field(10, gt=0, description="How long a worker may finish its slice when told to stop.")

    # Traces
    otel_endpoint: str | None = Field(
        None,
        pattern=r"^https?://",
        description="Collector of OpenTelemetry that traces are sent to over HTTP, such as `http://127.0.0.1:4318`; it "
        "needs the extra `otel`. Without it nothing is traced.",
    )

    # Logs and tests
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    failpoints: Annotated[frozenset[str], NoDecode] = Field(
        frozenset(), description="Tests only: named places where the process kills itself."
    )

    @field_validator("failpoints", "llm_hosts", mode="before")
    @classmethod
    def _by_comma(cls, given: object) -> object:
        return frozenset(filter(None, given.split(","))) if isinstance(given, str) else given

    @field_validator("dynamics_files", mode="before")
    @classmethod
    def _named(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        named = [part.strip().partition("=") for part in given.split(",") if part.strip()]
        if not all(name and path for name, _, path in named) or len({name for name, _, _ in named}) < len(named):
            raise ValueError("give name=path.py, several with commas, each name once")
        return {name: path for name, _, path in named}

    @field_validator(
        *("openai_api_key", "openai_base_url", "cold_url", "cold_endpoint", "master_key"),
        *("metrics_token", "backup_mark", "otel_endpoint"),
        mode="before",
    )
    @classmethod
    def _none_if_empty(cls, given: object) -> object:
        return None if given == "" else given

    @model_validator(mode="after")
    def _nights_get_somewhere(self) -> Settings:
        if self.jobs_wait_hours >= self.night_hours:
            raise ValueError("JOBS_WAIT_HOURS must be less than NIGHT_HOURS: else a night could pass in waiting")
        return self

    @property
    def embedder_model(self) -> str:
        """The embedder's model; empty where it has no choice of models."""
        return self.embedding_model or EMBEDDING_MODELS.get(self.embedder, "")

    @property
    def rerank_model(self) -> str:
        """The reranker's model; empty where it has no choice of models."""
        defaults = {"llm": self.salience_model, "cross-encoder": CROSS_ENCODER}
        return self.reranker_model or defaults.get(self.reranker, "")

    @property
    def summarising_model(self) -> str:
        """The model that sums up memories."""
        return self.summary_model or self.salience_model

    @property
    def has_provider(self) -> bool:
        """Whether a provider of models is named at all."""
        return self.openai_api_key is not None or self.openai_base_url is not None

    @property
    def llm_tries_seconds(self) -> float:
        """How long a call for vectors may take with all of its tries."""
        return self.llm_tries * self.llm_timeout_seconds + self.llm_wait_max_seconds

    @property
    def provider_url(self) -> str:
        """Where it is, or would be."""
        return self.openai_base_url or OPENAI_URL

    @property
    def provider_host(self) -> str:
        """Its host, without port, path and user; empty where the address has none."""
        try:
            return urlsplit(self.provider_url).hostname or ""
        except ValueError:
            return ""


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings, read once. Tests call `settings.cache_clear()`."""
    return Settings()
