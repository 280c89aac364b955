"""PATE-FM: teachers on disjoint shards, students on their answers. The theory is in mechanisms.

| question | modules |
|---|---|
| What is the method? | `pate_fm` |
| Who votes? | `teachers`: FixMatch, `network_batch`, `probes` or `forests` |
| Who learns from answers? | `students` |
| What do votes tell about a person? | `attribute_inference` |
"""
