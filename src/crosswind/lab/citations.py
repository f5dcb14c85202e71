"""Citations in full: the five papers, and those whose methods stand beside them."""

from __future__ import annotations

from crosswind.errors import InputError

__all__ = ["BIBTEX", "cite"]

BIBTEX = {
    "celljoin": """@inproceedings{gedik2007celljoin,
  author    = {Gedik, Bu{\\u{g}}ra and Yu, Philip S. and Bordawekar, Rajesh R.},
  title     = {Executing Stream Joins on the {Cell} Processor},
  booktitle = {Proceedings of the 33rd International Conference on Very Large Data Bases (VLDB)},
  address   = {Vienna, Austria},
  pages     = {363--374},
  year      = {2007}
}""",
    "handshake": """@inproceedings{teubner2011handshake,
  author    = {Teubner, Jens and Mueller, Rene},
  title     = {How Soccer Players Would do Stream Joins},
  booktitle = {Proceedings of the 2011 ACM SIGMOD International Conference on Management of Data},
  address   = {Athens, Greece},
  pages     = {625--636},
  year      = {2011}
}""",
    "fpga": """@inproceedings{oge2011fpga,
  author    = {Oge, Yasin and Miyoshi, Takefumi and Kawashima, Hideyuki and Yoshinaga, Tsutomu},
  title     = {An Implementation of Handshake Join on {FPGA}},
  booktitle = {Second International Conference on Networking and Computing (ICNC)},
  pages     = {95--104},
  year      = {2011}
}""",
    "wjsp": """@article{qian2009wjsp,
  author    = {Qian, Jiang-bo and Wang, Yong-li and Chen, Zheng and Chen, Hua-hui and Jin, Guang},
  title     = {Hardware Processor for Window Joins over Multiple Data Streams},
  journal   = {Acta Electronica Sinica},
  volume    = {37},
  number    = {2},
  pages     = {404--409},
  year      = {2009},
  note      = {In Chinese}
}""",
    "dpjoin": """@inproceedings{buono2014dpjoin,
  author    = {Buono, Daniele and De Matteis, Tiziano and Mencagli, Gabriele},
  title     = {A High-Throughput and Low-Latency Parallelization of Window-based Stream Joins on Multicores},
  booktitle = {IEEE International Symposium on Parallel and Distributed Processing with Applications (ISPA)},
  pages     = {117--126},
  year      = {2014}
}""",
    "kang": """@inproceedings{kang2003windows,
  author    = {Kang, Jaewoo and Naughton, Jeffrey F. and Viglas, Stratis D.},
  title     = {Evaluating Window Joins over Unbounded Streams},
  booktitle = {Proceedings of the 19th International Conference on Data Engineering (ICDE)},
  pages     = {341--352},
  year      = {2003}
}""",
    "low-latency-handshake": """@article{roy2014lowlatency,
  author    = {Roy, Pratanu and Teubner, Jens and Gemulla, Rainer},
  title     = {Low-Latency Handshake Join},
  journal   = {Proceedings of the VLDB Endowment},
  volume    = {7},
  number    = {9},
  pages     = {709--720},
  year      = {2014}
}""",
    "splitjoin": """@inproceedings{najafi2016splitjoin,
  author    = {Najafi, Mohammadreza and Sadoghi, Mohammad and Jacobsen, Hans-Arno},
  title     = {{SplitJoin}: A Scalable, Low-latency Stream Join Architecture with Adjustable Ordering Precision},
  booktitle = {USENIX Annual Technical Conference (ATC)},
  pages     = {493--505},
  year      = {2016}
}""",
    "bistream": """@inproceedings{lin2015bistream,
  author    = {Lin, Qian and Ooi, Beng Chin and Wang, Zhengkui and Yu, Cui},
  title     = {Scalable Distributed Stream Join Processing},
  booktitle = {Proceedings of the 2015 ACM SIGMOD International Conference on Management of Data},
  pages     = {811--825},
  year      = {2015}
}""",
    "scalejoin": """@inproceedings{gulisano2015scalejoin,
  author    = {Gulisano, Vincenzo and Nikolakopoulos, Yiannis and Papatriantafilou, Marina and Tsigas, Philippas},
  title     = {{ScaleJoin}: A Deterministic, Disjoint-Parallel and Skew-Resilient Stream Join},
  booktitle = {IEEE International Conference on Big Data},
  pages     = {144--153},
  year      = {2015}
}""",
}
"""BibTeX entries: the papers of the lab by their folders, then those whose methods stand beside them."""


def cite(names: tuple[str, ...] = ()) -> str:
    """Return BibTeX entries, all of them or those of ``names``.

    Examples
    --------
    >>> cite(("dpjoin",)).splitlines()[0]
    '@inproceedings{buono2014dpjoin,'
    """
    for name in names:
        if name not in BIBTEX:
            raise InputError(f"there is no citation '{name}'; there are: {', '.join(BIBTEX)}.")
    return "\n\n".join(BIBTEX[name] for name in names or BIBTEX)
