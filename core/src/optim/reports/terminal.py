def print_report(report, console):
    console.print(report.status, report.reason)
