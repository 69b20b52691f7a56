mod budgets;
mod laws;
mod meaning;
mod presets;
