"""The steps by which older databases are brought up to date; `compeer.annotation.store.migrate` runs them."""
