"""The paper's experiments: models, data sets, black boxes, a runner, figures, tables and claims."""
