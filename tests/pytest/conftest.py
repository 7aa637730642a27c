pytest_plugins = ["crashcut_pytest"]
