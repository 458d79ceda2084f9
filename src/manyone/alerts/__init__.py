"""What stands out in a scored table: values in, incidents and advice out.

`values` says what is known about tasks and rows, `evidence` what chance explains,
`incidents` which alarms belong together, `missing` which columns lack values, and
`advice` what to do next. Nothing here knows a model or a page.
"""
