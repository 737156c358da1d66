// On a phone the rail is a bar that scrolls: where somebody is, is in sight.

document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center", behavior: "instant" });
