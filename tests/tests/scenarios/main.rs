//! The promises on real parts: Envoy with the module, sidecars, Redis, sockets, and raven's own stamps.

mod pace;
