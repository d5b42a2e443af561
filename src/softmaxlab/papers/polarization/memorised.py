"""A sentence for pictures of classification tasks that have only a few different inputs."""

from softmaxlab.training import Classification


def memorised(task: Classification) -> str:
    """Say how few inputs a task has, if each of its groups has just as many tokens as a sequence; else nothing."""
    if (task.vocab - 1) // task.labels > task.tokens:
        return ""
    pairs = task.labels * (task.labels - 1)
    return (
        f"Vocabulary {task.vocab}: groups of {task.tokens} and sequences of {task.tokens} distinct tokens, so there "
        f"are {task.labels} inputs in all\n(as sets) and {pairs} ordered pairs of labels: memorised sets, not a sample"
    )
