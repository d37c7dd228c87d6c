"""The benchmark: what is run, how it is run, and the tables and pages made of the results. NOT PRIVATE, public data.

A spec (`specs`, with `specs/*.toml`) is a list of runs (`run`); `catalogue` has the learners they name. `runner` has
processes (`worker`) make runs, each by `one_run` and `measures` with data from `workspace`, and keeps results in a
`folder`; `without_data` has the experiments that need none, `estimates` how long things take. From results come
`tables` (laid out by `layout`, written by `typeset`, beside `paper_numbers` from `paper/*.toml`), `findings` and
`pages`.
"""
