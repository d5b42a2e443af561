"""Attention maps: scores → weights, one registry for theory, transformers and pretrained models."""

from softmaxlab.attention.attend import attend as attend
from softmaxlab.attention.attend import weights as weights
from softmaxlab.attention.catalogue import MAPS as MAPS
from softmaxlab.attention.catalogue import names as names
from softmaxlab.attention.catalogue import register as register
from softmaxlab.attention.compare import Compare as Compare
from softmaxlab.attention.map import Map as Map
from softmaxlab.attention.mlp import feature_mlp as feature_mlp

__all__ = ["MAPS", "Compare", "Map", "attend", "feature_mlp", "names", "register", "weights"]
