// On a phone the navigation is a bar that scrolls. Scroll it to the current page.

document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center", behavior: "instant" });
