mod laws;
mod meaning;
