//! Units, links, invalidation, polls and heat of the template tier.
