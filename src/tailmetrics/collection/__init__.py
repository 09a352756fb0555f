"""Layer 3: many metrics, one ranking per batch, one flat dict of scalars."""

from tailmetrics.collection._collection import TopKCollection as TopKCollection
from tailmetrics.collection._summaries import (
    UNSEEN as UNSEEN,
    buckets_by_stem as buckets_by_stem,
)
