"""Settings of the service, read from the environment (`EBBING_*`) or a `.env` file; secrets also from files.

No other module reads the environment. Names include the unit.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from app.domain.server_urls import HTTP_URL, POSTGRESQL_URL, REDIS_URL
from app.log_in_settings import LogInSettings
from app.secret_settings import SecretFileSettings
from app.setting_groups.capability_settings import CapabilitySettings

KIB = 1024
MIB = 1024 * KIB
MASTER_KEY_LENGTH = 32
OPENAI_URL = "https://api.openai.com/v1"
EMBEDDING_MODELS = {
    "openai": "text-embedding-3-small",
    "fastembed": "BAAI/bge-small-en-v1.5",
    "sentence-transformers": "sentence-transformers/all-MiniLM-L6-v2",
}
"""Default model by embedder; `local` has a single fixed model."""
IN_PROCESS = frozenset({"fastembed", "sentence-transformers"})
"""Embedders that run the model in-process."""
CROSS_ENCODER = "Xenova/ms-marco-MiniLM-L-6-v2"


class ModelPrice(BaseModel):
    """Price of a model per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(0, ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)


class Settings(SecretFileSettings, CapabilitySettings, LogInSettings):
    """Settings with defaults that work on one machine."""

    model_config = SettingsConfigDict(
        env_prefix="EBBING_", env_file=".env", extra="ignore", frozen=True, hide_input_in_errors=True
    )

    # Storage locations and connections
    home: Path = Path(".ebbing")
    """Data folder of `ebbing run`: databases, logs, first API key."""
    database_url: Annotated[SecretStr | None, POSTGRESQL_URL] = None
    """PostgreSQL URL, such as `postgresql://user:password@host:port/db`."""
    owner_database_url: Annotated[SecretStr | None, POSTGRESQL_URL] = None
    """PostgreSQL URL with owner rights, used only by `ebbing migrate`. Default: `DATABASE_URL`."""
    redis_url: Annotated[SecretStr | None, REDIS_URL] = None
    """Redis URL, such as `redis://:password@host:port/0`."""
    api_url: str | None = None
    """API address for the CLI. Default: `EBBING_PORT` on this machine if the environment sets it, otherwise the address
    that `ebbing run` recorded in its home."""
    api_key: SecretStr | None = None
    """API key for the CLI. Default: the key in `EBBING_HOME/api-key`."""
    installation: Literal["run", "compose", "kubernetes", "processes"] = "processes"
    """Kind of installation. It decides the form of the commands that the dashboard and `ebbing doctor` propose.
    `ebbing run`, the Compose file and the Kubernetes manifests set it themselves."""
    redis_appendfsync: Literal["everysec", "always"] = "everysec"
    """Fsync policy of the embedded Redis; `always` survives a power failure."""
    redis_maxmemory_bytes: int = Field(512 * MIB, ge=16 * MIB)
    """Memory limit of the embedded Redis; when full: 503, no eviction."""

    # HTTP
    host: str = "127.0.0.1"
    """Address the API listens on."""
    port: int = Field(8000, ge=0, le=65535)
    """Port the API listens on; 0 picks a free port."""
    health_port: int | None = Field(None, ge=1, le=65535)
    """Further port for `/healthz` and `/readyz`, for probes: connections that fill the API's port don't affect it. The
    API's port serves both as well. Only this port serves `/startz`: 503 if schema, role or master key don't fit."""
    connections_max: int = Field(8192, ge=64)
    """Maximum open connections of the API, limited by the open files that the system allows; further ones wait until
    one closes."""
    public_url: Annotated[str | None, HTTP_URL] = None
    """Address at which people open the service, such as `https://ebbing.example.com`; alerts link to its runbook."""
    docs_enabled: bool = True
    """Serve `/docs` and `/openapi.json`."""
    metrics_enabled: bool = True
    """Serve `/metrics`."""
    metrics_token: SecretStr | None = Field(None, min_length=16)
    """Bearer token required by `/metrics` (an API key with the scope `admin` works as well). If unset, anyone who can
    reach the API can read the aggregated metrics of all tenants."""
    metrics_tenants: int = Field(0, ge=0, le=50)
    """Number of tenants that `/metrics` shows by name, those with the longest queues first. 0: none."""
    request_body_max_bytes: int = Field(8 * MIB, ge=KIB)
    """Maximum size of a request body."""
    request_headers_timeout_seconds: float = Field(5, ge=0.1)
    """Timeout for receiving request headers, also the keep-alive timeout: it limits how long an idle connection keeps
    its place. A proxy that reuses connections should close idle ones earlier."""
    request_body_timeout_seconds: float = Field(15, gt=0)
    """Timeout for receiving a request body."""
    request_memories_max: int = Field(1000, ge=1, le=4096)
    """Maximum memories per request."""
    wait_max_seconds: float = Field(30, ge=0)
    """Upper limit for `Prefer: wait`."""
    key_cache_seconds: float = Field(3, ge=0, le=4)
    """Time for which the API caches a verified API key."""
    idempotency_hours: float = Field(24, gt=0)
    """Retention period of an `Idempotency-Key`."""

    # Ingest backlog limits
    tenant_backlog_entries: int = Field(20_000, ge=1)
    """Ingest backlog limit per tenant, in requests; then 429."""
    tenant_backlog_bytes: int = Field(128 * MIB, ge=KIB)
    """Ingest backlog limit per tenant, in bytes; then 429."""
    tenant_backlog_memories: int = Field(50_000, ge=1)
    """Ingest backlog limit per tenant, in memories; then 429."""
    backlog_entries: int = Field(200_000, ge=1)
    """Ingest backlog limit of all tenants, in requests; then 503."""
    backlog_bytes: int = Field(320 * MIB, ge=KIB)
    """Ingest backlog limit of all tenants, in bytes; then 503."""

    # Ingest workers
    drain_rows: int = Field(5000, ge=1)
    """Maximum memories per tenant batch, stored in one transaction."""
    drain_entries: int = Field(1000, ge=1)
    """Maximum requests per tenant batch."""
    drain_bytes: int = Field(16 * MIB, ge=KIB)
    """Maximum bytes per tenant batch."""
    claim_idle_seconds: float = Field(10, gt=0)
    """Idle time after which another worker takes over a claimed stream entry."""
    deliveries_max: int = Field(3, ge=1)
    """Delivery attempts before an entry becomes a dead letter."""
    slice_seconds: float = Field(5, gt=0)
    """Time slice of one task."""

    # Enrichment
    embedder: Literal["local", "openai", "fastembed", "sentence-transformers"] = "local"
    """`local`: bundled static model, works offline; `openai`: `EMBEDDING_MODEL` of the provider; `fastembed`,
    `sentence-transformers`: `EMBEDDING_MODEL` run in-process, needs the extra of that name. A change applies to new
    tenants; run `ebbing reembed` to move existing ones."""
    lease_seconds: float = Field(30, gt=0)
    """Lease of an enrichment claim; when it ends, another worker may claim the memories."""
    index_rows: int = Field(2000, ge=1)
    """Memories per indexing transaction."""
    embed_rows: int = Field(1000, ge=1)
    """Memories per embedding batch."""
    score_rows: int = Field(1000, ge=1)
    """Memories per scoring batch."""

    # Search
    search_exact_rows: int = Field(2_000, ge=0)
    """Tenants with at most this many memories are searched exhaustively, larger ones by dedicated indexes."""

    # Maintenance
    ingest_behind_seconds: float = Field(10, ge=0)
    """Background jobs pause while the oldest ingest backlog entry is older than this."""
    jobs_wait_hours: float = Field(2, ge=0, lt=24)
    """A job pauses for ingest at most this long per day, counted from its creation. Must be less than `NIGHT_HOURS`."""
    night_hours: float = Field(6, gt=0, le=23)
    """Time limit of a tenant's nightly run; the next night continues with the remaining work."""

    # Privacy
    backup_days: int = Field(30, ge=0, le=3650)
    """Retention period of your backups, stated in erasure reports. The service makes no backups itself."""
    notes_dir: Path | None = None
    """Folder for notes of promoted memories, on a disk that API and workers share. If unset, no notes are written."""
    document_texts: Path | None = None
    """Translated copy of `app/domain/privacy/documents/en.toml`, the texts of erasure reports, of answers to privacy
    requests and of the readable page of exports. Default: English."""
    backup_mark: Path | None = None
    """File that your backup touches on success; its age is `ebbing_backup_age_seconds`."""

    # Model provider: OpenAI, or any server with a compatible API. Only operators choose it.
    openai_api_key: SecretStr | None = None
    """API key of the model provider. If this and `OPENAI_BASE_URL` are unset, no model is called."""
    openai_base_url: Annotated[str | None, HTTP_URL] = None
    """Base URL of the provider, such as `http://127.0.0.1:11434/v1`. Default: the OpenAI API."""
    llm_hosts: Annotated[frozenset[str], NoDecode] = frozenset()
    """Hosts that may receive memory text. Default: only the host of `OPENAI_BASE_URL`."""
    llm_private_addresses: bool = False
    """Allow provider host names that resolve to private addresses, as in a container network; `localhost` and numeric
    addresses are always allowed."""
    salience_model: str = Field("gpt-5.4-mini", min_length=1)
    """Model that rates memories if a provider is configured."""
    embedding_model: str | None = Field(None, min_length=1)
    """Model for embedders other than `local`; for in-process models also a folder with the model files. Each model has
    its own embedding space. Defaults: `text-embedding-3-small` for `openai`, `BAAI/bge-small-en-v1.5` for `fastembed`,
    `sentence-transformers/all-MiniLM-L6-v2` for `sentence-transformers`."""
    embedding_query_prefix: str = "auto"
    """Prefix for queries with `fastembed` and `sentence-transformers`. `auto`: the prefix named in the model files, or
    the one used by its model family; empty: no prefix. Quote the value in `.env` to preserve a trailing space."""
    embedding_document_prefix: str = "auto"
    """Prefix for memories, with the same values as `EMBEDDING_QUERY_PREFIX`. A change creates a new embedding space:
    run `ebbing reembed` to move tenants to it."""
    embedding_threads: int = Field(1, ge=1, le=64)
    """Threads per process for an in-process embedding model and for the `cross-encoder`."""
    embedding_dimensions: int = Field(768, ge=0, le=16_000)
    """Vector size requested from an `openai` model; 0 uses the model's own size."""
    llm_timeout_seconds: float = Field(30, gt=0, le=120)
    """Timeout of one model call, to the last byte; a worker's task has 300 seconds."""
    llm_query_timeout_seconds: float = Field(3, gt=0)
    """Timeout for embedding a query; no retry."""
    query_cache_entries: int = Field(2000, ge=0)
    """Query vectors cached per API process (not used with the embedder `local`); 0 disables the cache."""
    query_cache_seconds: float = Field(600, gt=0)
    """Lifetime of a cached query vector."""
    llm_tries: int = Field(3, ge=1)
    """Attempts per embedding call of a worker on transient errors. Chat calls and embeddings of queries have one."""
    llm_wait_max_seconds: float = Field(10, ge=0)
    """Total backoff budget per call; calls that need more are rescheduled."""
    llm_concurrency: int = Field(4, ge=1)
    """Concurrent model calls per process."""
    llm_breaker_failures: int = Field(5, ge=1)
    """Consecutive failures that open the circuit breaker."""
    llm_breaker_seconds: float = Field(30, gt=0)
    """Time the circuit breaker stays open between probes of the provider; doubles up to 45 seconds."""
    score_batch_tokens: int = Field(4000, ge=100)
    """Maximum tokens of memories, and of the turns shown around them, per rating call."""
    score_batch_memories: int = Field(20, ge=1, le=100)
    """Maximum memories per rating call."""
    embed_batch_tokens: int = Field(64_000, ge=100)
    """Maximum memory tokens per embedding call."""
    embed_batch_memories: int = Field(256, ge=1, le=2048)
    """Maximum memories per embedding call."""
    summary_model: str | None = Field(None, min_length=1)
    """Model that writes summaries during consolidation. Default: `SALIENCE_MODEL`."""
    summary_tokens: int = Field(16_000, ge=100)
    """Maximum memory tokens sent for one summary; larger groups get an extractive summary instead."""

    # Reranking of the best search results, if the tenant's policy or the request asks for it
    reranker: str = Field("none", min_length=1)
    """Reranker: `none`; `llm`: `RERANKER_MODEL` of the provider; `cross-encoder`: in-process model, needs the extra
    `fastembed`; any other value: name of an entry point in the group `ebbing.rerankers`."""
    reranker_model: str | None = Field(None, min_length=1)
    """Model of the reranker. Defaults: `SALIENCE_MODEL` for `llm`, `Xenova/ms-marco-MiniLM-L-6-v2` for
    `cross-encoder`."""
    rerank_timeout_seconds: float = Field(2, gt=0, le=30)
    """Timeout of the reranker; after it, results keep their original order."""

    # Model budgets. At a hard limit the rules take over until the next day in UTC; nothing is lost.
    prices: dict[str, ModelPrice] = Field({})
    """Prices per million tokens by model, as JSON: `{"gpt-5.4-mini": {"input": 0.5, "cached": 0.05, "output": 2}}`. The
    cost of unlisted models is unknown."""
    budget_tokens: int | None = Field(None, ge=0)
    """Hard limit of tokens per tenant and day; default: none."""
    budget_cost: float | None = Field(None, ge=0)
    """Hard limit of cost per tenant and day, in the unit of `PRICES`; default: none."""
    budget_total_tokens: int | None = Field(None, ge=0)
    """Hard limit of tokens per day for all tenants."""
    budget_total_cost: float | None = Field(None, ge=0)
    """Hard limit of cost per day for all tenants."""
    budget_soft_share: float = Field(0.8, gt=0, le=1)
    """Share of a hard limit above which the log, `/metrics` and `/v1/usage` warn."""

    # Cold storage. Only operators choose it; cloud credentials are read from the standard variables of each cloud.
    cold_url: str | None = None
    """Location of cold storage: `file:///folder`, `s3://bucket/prefix`, `gs://bucket` or `az://container`. Default:
    `EBBING_HOME/cold`. Credentials come from the standard variables of the cloud, such as `AWS_ACCESS_KEY_ID`, or from
    files, such as `AWS_ACCESS_KEY_ID_FILE` (all are in `ops/deployment.md`)."""
    cold_endpoint: Annotated[str | None, HTTP_URL] = None
    """Endpoint of an S3-compatible or other custom store, such as `https://minio.example:9000`."""
    cold_timeout_seconds: float = Field(30, gt=0, le=120)
    """Timeout of a cold-storage call, with all retries."""
    master_key: SecretStr | None = Field(None, min_length=MASTER_KEY_LENGTH)
    """Random secret that wraps the cold-storage keys; `ebbing run` generates `EBBING_HOME/master-key`. Keep a copy
    elsewhere: without it, memories in cold storage are lost."""
    other_master_keys: SecretStr | None = None
    """Further master keys, one per line, that decrypt what they wrapped and wrap nothing new. Needed while the master
    key is rotated, and to restore a backup of the key store that is older than the rotation."""
    export_days: float = Field(7, gt=0, le=30)
    """Days until a data export expires."""

    # Custom forgetting profiles. Only operators choose them, because they are code.
    dynamics_files: Annotated[dict[str, Path], NoDecode] = Field({})
    """Custom decay functions offered as profiles: `name=path.py`, separated by commas. Each file defines
    `compute_decay(activation, impact, stability, mtype, params)`. Set it for the API and every worker."""

    # Connections and timeouts
    database_pool_size: int = Field(8, ge=1)
    """Database connections of the API; each worker process uses 2."""
    statement_timeout_seconds: float = Field(30, gt=0)
    """Timeout of a database statement."""
    shutdown_seconds: float = Field(10, gt=0)
    """Time a worker has to finish its slice after a stop signal."""

    # Traces
    otel_endpoint: str | None = Field(None, pattern=r"^https?://")
    """OpenTelemetry collector that receives traces over HTTP, such as `http://127.0.0.1:4318`; needs the extra `otel`.
    If unset, tracing is off."""

    # Logs and tests
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum log level."""
    failpoints: Annotated[frozenset[str], NoDecode] = frozenset()
    """Tests only: names of places where the process kills itself."""

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
            raise ValueError("expected name=path.py, separated by commas, with unique names")
        return {name: path for name, _, path in named}

    @field_validator(
        *("openai_api_key", "openai_base_url", "cold_url", "cold_endpoint", "master_key", "other_master_keys"),
        *("public_url", "metrics_token", "backup_mark", "notes_dir", "otel_endpoint"),
        mode="before",
    )
    @classmethod
    def _none_if_empty(cls, given: object) -> object:
        return None if given == "" else given

    @field_validator("other_master_keys")
    @classmethod
    def _each_is_long(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None and any(len(line) < MASTER_KEY_LENGTH for line in given.get_secret_value().splitlines()):
            raise ValueError(f"each line must have at least {MASTER_KEY_LENGTH} characters")
        return given

    @model_validator(mode="after")
    def _nights_get_somewhere(self) -> Settings:
        if self.jobs_wait_hours >= self.night_hours:
            raise ValueError(
                "EBBING_JOBS_WAIT_HOURS must be less than EBBING_NIGHT_HOURS, or a job could pause for a whole night"
            )
        return self

    @model_validator(mode="after")
    def _log_ins_can_return(self) -> Settings:
        if self.oidc_issuer is not None and urlsplit(self.public_url or "").scheme not in ("https", "http"):
            raise ValueError("EBBING_OIDC_ISSUER requires EBBING_PUBLIC_URL, to which the provider sends people back")
        return self

    @property
    def embedder_model(self) -> str:
        """Model of the embedder; empty if it has no choice of models."""
        return self.embedding_model or EMBEDDING_MODELS.get(self.embedder, "")

    @property
    def rerank_model(self) -> str:
        """Model of the reranker; empty if it has no choice of models."""
        defaults = {"llm": self.salience_model, "cross-encoder": CROSS_ENCODER}
        return self.reranker_model or defaults.get(self.reranker, "")

    @property
    def summarising_model(self) -> str:
        """Model that writes summaries."""
        return self.summary_model or self.salience_model

    @property
    def has_provider(self) -> bool:
        """True if a model provider is configured."""
        return self.openai_api_key is not None or self.openai_base_url is not None

    @property
    def llm_tries_seconds(self) -> float:
        """Longest duration of an embedding call, including all attempts."""
        return self.llm_tries * self.llm_timeout_seconds + self.llm_wait_max_seconds

    @property
    def provider_url(self) -> str:
        """Base URL of the provider, or OpenAI's if none is configured."""
        return self.openai_base_url or OPENAI_URL

    @property
    def provider_address(self) -> str:
        """Host of the provider URL with its port."""
        return urlsplit(self.provider_url).netloc

    @property
    def provider_host(self) -> str:
        """Host of the provider URL, without port and path."""
        return urlsplit(self.provider_url).hostname or ""


@lru_cache(maxsize=1)
def settings() -> Settings:
    """Return the settings, read once per process. Tests call `settings.cache_clear()`."""
    return Settings()
