"""Which architectures of transformers can be measured: every type is built tiny and tried."""
