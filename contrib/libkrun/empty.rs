//! Empty: Cargo wants a library of its own, and the one that is built is libkrun.
