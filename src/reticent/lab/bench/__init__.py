"""The benchmark: what is run, how it is run, and the tables and pages made of the results. NOT PRIVATE, public data.

A spec (`specs`, with `specs/*.toml`) is a list of runs (`run`); `catalogue` has the learners they name. `runner` has
processes (`worker`) make runs, each by `one_run` and `measures` with data from `workspace`, and keeps results in a
`folder`; `label_experiments` need no data, `estimates` says how long things take. From results come `tables` (laid out
by `layout`, written by `typeset`, beside `paper_numbers` from `paper/*.toml`), the paper's `findings`, `our_claims`,
where ours is `behind`, and `pages`.
"""
