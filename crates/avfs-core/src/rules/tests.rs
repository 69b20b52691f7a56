mod budgets;
mod confined;
mod documentation;
mod laws;
mod meaning;
mod presets;
