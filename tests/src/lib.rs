//! What the integration tests share: generators and oracles.

pub mod objdump;
pub mod words;
