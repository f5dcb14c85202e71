"""Who does which part of a search: a pool of workers, and one policy per paper."""
