"""Find out which architectures of transformers can be measured: build every type tiny and try it."""
