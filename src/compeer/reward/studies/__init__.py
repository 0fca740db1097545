"""Figure 5: consistency (what contradicts what), consistency_run, following (what the assessor is asked), timing."""
