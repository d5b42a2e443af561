"""Attention maps: scores → weights, one registry for theory, transformers and pretrained models."""

from softmaxlab.attention.attend import attend as attend
from softmaxlab.attention.attend import weights as weights
from softmaxlab.attention.check import check_attention as check_attention
from softmaxlab.attention.compare import Compare as Compare
from softmaxlab.attention.map import Map as Map
from softmaxlab.attention.maps.features import feature_mlp as feature_mlp
from softmaxlab.attention.registry import MAPS as MAPS
from softmaxlab.attention.registry import names as names
from softmaxlab.attention.registry import register as register

__all__ = ["MAPS", "Compare", "Map", "attend", "check_attention", "feature_mlp", "names", "register", "weights"]
