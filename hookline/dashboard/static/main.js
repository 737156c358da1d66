// Loads the scripts of every page.

import "./time.js";
import "./live.js";
import "./charts.js";
import "./copy.js";
import "./select.js";
import "./submit.js";
import "./theme.js";
import "./keys.js";
import "./rail.js";
