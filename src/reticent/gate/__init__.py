"""The only door: sensitive values in, released values out.

Here lives what bounds the contribution of one example, what draws noise, and the record of both. A mechanism is a
function of sensitive data with the event that it costs; a learner reaches it through a permit of the gate. Nothing here
reads examples from files or computes features and gradients.
"""
