mod budgets;
mod documentation;
mod laws;
mod meaning;
mod presets;
