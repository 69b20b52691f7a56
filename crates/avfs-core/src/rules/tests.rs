mod meaning;
