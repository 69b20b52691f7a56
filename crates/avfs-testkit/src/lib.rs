//! What the tests of agentvfs share.
