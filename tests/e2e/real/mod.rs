//! Real servers and how to talk to them: for the scenarios here, for the conformance suite, and for the bench on kcp.

pub mod api;
pub mod audit;
pub mod credentials;
pub mod eventually;
pub mod kcp;
pub mod kube;
pub mod machine;
pub mod process;
pub mod rest;
pub mod servers;
